# Installs a tree that works anywhere: the program, the decks, the batch scripts, the analysis scripts, and their documents.
include(GNUInstallDirs)
install(TARGETS shoal RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY inputs jobscripts analysis DESTINATION ${CMAKE_INSTALL_DATADIR}/shoal USE_SOURCE_PERMISSIONS
  PATTERN "__pycache__" EXCLUDE PATTERN ".venv" EXCLUDE)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/shoal)
